-- SPDX-License-Identifier: Apache-2.0
-- Renew the lock if there is one, whosever it is: that is the flaw of the strategy which uses it.
--
-- KEYS[1] lock   ARGV[1] owner, not looked at   ARGV[2] lease in ms
-- Result: 1 renewed, 0 there is none.
if redis.call('exists', KEYS[1]) == 1 then
    return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0
