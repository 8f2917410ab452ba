-- SPDX-License-Identifier: Apache-2.0
--
-- Free many locks, each if its tenure holds it, and wake who waits for them.
--
-- KEYS   the locks
-- ARGV   for each lock the channel and the owner string
-- Result for each lock as release.lua, or an error
--
-- Why so: as release.lua. One bad key must not keep the others from being freed.
local answers = {}
for i = 1, #KEYS do
    local released = redis.pcall('HDEL', KEYS[i], ARGV[2 * i])
    if released == 1 then
        local heard = redis.pcall('PUBLISH', ARGV[2 * i - 1], '0')
        released = type(heard) == 'number' and 1 + heard or 1
    end
    answers[i] = released
end
return answers
