-- SPDX-License-Identifier: Apache-2.0
--
-- Let the leases of many textbook locks start again, each only if its tenure still holds it.
--
-- KEYS   the locks
-- ARGV   for each lock its owner string and its lease in ms
-- Result for each lock 1 (renewed), 0 (the tenure does not hold it), or an error
--
-- Why so: as renew.lua, for locks that are strings.
local answers = {}
for i = 1, #KEYS do
    local answer = redis.pcall('GET', KEYS[i])
    if answer == ARGV[2 * i - 1] then
        answer = redis.pcall('PEXPIRE', KEYS[i], ARGV[2 * i])
    elseif type(answer) ~= 'table' then
        answer = 0
    end
    answers[i] = answer
end
return answers
