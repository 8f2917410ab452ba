-- SPDX-License-Identifier: Apache-2.0
--
-- Does the tenure read or write? And show how often a writer has acquired the lock, to people who
-- look.
--
-- KEYS   1 the lock
-- ARGV   1 the owner string, 2 the count (0: show nothing)
-- Result 1 (it does), 0 (it does not)
--
-- Why so: as count.lua. A reader's count stays at one, as there is one key for its holds; who
-- counts on it is Redisson, which looks for so many keys.
local writer = ARGV[1] .. ':write'
if redis.call('HEXISTS', KEYS[1], writer) == 0 then
    return redis.call('HEXISTS', KEYS[1], ARGV[1])
end
if ARGV[2] ~= '0' then
    redis.call('HSET', KEYS[1], writer, ARGV[2])
end
return 1
