-- SPDX-License-Identifier: Apache-2.0
--
-- Give a tenure the textbook lock if it is free or the tenure's own already.
--
-- KEYS   1 the lock
-- ARGV   1 the owner string, 2 the lease in ms
-- Result 1    granted
--        -1   held by somebody else, nobody knows for how long (the key has no TTL)
--        < -1 held by somebody else for -2 - result ms at most
--
-- Why so: the layout is that of the Redis manual, a string with a TTL, so any program that takes
-- locks by SET NX PX and frees them by compare-and-delete is excluded. There is no token: the
-- counter would be a second key that such programs know nothing of. A key of another type is
-- refused by GET with an error that says so.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return 1
end
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 1
end
local ttl = redis.call('PTTL', KEYS[1])
return ttl < 0 and -1 or -2 - ttl
