-- SPDX-License-Identifier: Apache-2.0
-- Take the lock, or find that the caller has it already. Counts nothing: that is the flaw of the
-- strategy which uses it.
--
-- KEYS[1] lock   ARGV[1] owner   ARGV[2] lease in ms
-- Result: 1 the caller has it, 0 somebody else has it.
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return 1
end
if redis.call('get', KEYS[1]) == ARGV[1] then
    return 1
end
return 0
