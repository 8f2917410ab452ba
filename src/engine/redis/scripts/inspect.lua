-- SPDX-License-Identifier: Apache-2.0
--
-- Who holds the lock?
--
-- KEYS   1 the token counter, 2 the lock
-- Result an array: the holder's owner string ('' if it is free), its hold count, the TTL in ms
--        (-1: none, -2: free), the token counter (0: none)
--
-- Why so: a lock has one field, or with the mode of a read/write lock several, of which the first
-- is told. HSCAN looks at no more than a few even if the hash is somebody's large one.
local ttl = redis.call('PTTL', KEYS[2])
local fields = redis.call('HSCAN', KEYS[2], 0, 'COUNT', 16)[2]
local at = 1
while fields[at] == 'mode' do
    at = at + 2
end
return {fields[at] or '', fields[at + 1] or '0', ttl, redis.call('GET', KEYS[1]) or '0'}
