-- SPDX-License-Identifier: Apache-2.0
--
-- Free the lock if the tenure holds it, and wake who waits.
--
-- KEYS   1 the lock
-- ARGV   1 the channel, 2 the owner string
-- Result 0     the tenure does not hold it
--        n > 0 released; n - 1 subscribers heard of it
--
-- Why so: the owner string is never used again, so this cannot touch a later tenure, however late
-- it comes. The last field takes the key with it. The message is by pcall: a missing right to
-- publish must not turn a release that is done into an error.
if redis.call('HDEL', KEYS[1], ARGV[2]) == 0 then
    return 0
end
local heard = redis.pcall('PUBLISH', ARGV[1], '0')
return type(heard) == 'number' and 1 + heard or 1
