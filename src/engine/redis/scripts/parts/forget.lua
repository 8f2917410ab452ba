-- SPDX-License-Identifier: Apache-2.0
--
-- Part of the scripts that count: drop the record of an earlier request, whose answer has arrived.
--
-- KEYS   3 this request's record, 4 the earlier one's; the same as 3: there is none
--
-- Why so: this keeps one record for each caller at most, instead of one for each request of the
-- last minute. What gives something back has forget_first.lua instead.
if KEYS[4] ~= KEYS[3] then
    redis.call('DEL', KEYS[4])
end
