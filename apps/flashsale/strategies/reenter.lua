-- SPDX-License-Identifier: Apache-2.0
-- Take the lock, also again: a hash of the owner and how often the owner has it.
--
-- KEYS[1] lock   ARGV[1] owner   ARGV[2] lease in ms
-- Result: 1 the caller has it (once more), 0 somebody else has it.
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
    redis.call('hincrby', KEYS[1], ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return 1
end
return 0
