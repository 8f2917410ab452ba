-- SPDX-License-Identifier: Apache-2.0
--
-- Who holds the lock?
--
-- KEYS   1 the token counter, 2 the lock
-- ARGV   1 the owner string of who asks
-- Result an array: the holder's owner string ('' if it is free), its hold count, the TTL in ms
--        (-1: none, -2: free), the token counter (0: none)
--
-- Why so: a lock has one field, or with the mode of a read/write lock several, of which the first
-- is told; but who asks and reads is told of itself. HSCAN looks at no more than a few even if the
-- hash is somebody's large one.
local ttl = redis.call('PTTL', KEYS[2])
local fields = redis.call('HSCAN', KEYS[2], 0, 'COUNT', 16)[2]
local at, shared = 1, false
for i = 1, #fields, 2 do
    shared = shared or fields[i] == 'mode'
end
if fields[at] == 'mode' then
    at = at + 2
end
local holder, count = fields[at] or '', fields[at + 1] or '0'
local own = shared and holder ~= ARGV[1] and redis.call('HGET', KEYS[2], ARGV[1])
if own then
    holder, count = ARGV[1], own
end
return {holder, count, ttl, redis.call('GET', KEYS[1]) or '0'}
