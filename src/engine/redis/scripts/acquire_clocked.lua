-- SPDX-License-Identifier: Apache-2.0
--
-- What acquire.lua does, for a quorum: with the server's clock.
--
-- KEYS   as acquire.lua
-- ARGV   as acquire.lua
-- Result an array: what acquire.lua says, and the server's time in us, as text; or the first alone,
--        if there is no time to be had
--
-- Why so: a clock that has jumped ends leases early, and only the clock itself shows that. It is
-- read after the decision that rests on it, and with nobody in between, so a jump that had a part
-- in that decision is in the time. That is put together as text, see parts/token.lua.
local function grant()
    --include grant
end
local result = grant()
local time = redis.pcall('TIME')
if type(result) == 'table' or time.err then
    return result
end
return {result, time[1] .. string.rep('0', 6 - #time[2]) .. time[2]}
