-- SPDX-License-Identifier: Apache-2.0
--
-- Part of the scripts that count: what the count is, in the local `count`; nil: none was set.
--
-- KEYS   1 the count
-- Result returned only if the key is no count: the error WRONGTYPE, before anything was changed
local count = redis.call('GET', KEYS[1])
if count and not string.find(count, '^%-?%d+$') then
    return redis.error_reply('WRONGTYPE the key is not a number')
end
count = count and tonumber(count) or nil
