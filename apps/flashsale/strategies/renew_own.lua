-- SPDX-License-Identifier: Apache-2.0
-- Renew the lock if it is the caller's.
--
-- KEYS[1] lock   ARGV[1] owner   ARGV[2] lease in ms
-- Result: 1 renewed, 0 it is not the caller's any more.
if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
    return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0
