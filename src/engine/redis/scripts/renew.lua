-- SPDX-License-Identifier: Apache-2.0
--
-- Let the leases of many locks start again, each only if its tenure still holds it.
--
-- KEYS   the locks
-- ARGV   for each lock its owner string and its lease in ms
-- Result for each lock 1 (renewed), 0 (the tenure does not hold it), or an error
--
-- Why so: one script for a hundred locks costs the server a tenth of a hundred calls. The calls are
-- by pcall, so that one bad key does not keep the others from being renewed.
local answers = {}
for i = 1, #KEYS do
    local answer = redis.pcall('HEXISTS', KEYS[i], ARGV[2 * i - 1])
    if answer == 1 then
        answer = redis.pcall('PEXPIRE', KEYS[i], ARGV[2 * i])
    end
    answers[i] = answer
end
return answers
