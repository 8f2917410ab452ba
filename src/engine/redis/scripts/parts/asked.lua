-- SPDX-License-Identifier: Apache-2.0
--
-- Part of the scripts that count: has this request been carried out before?
--
-- KEYS   3 the request's record
-- Result returned only if it has been: what was answered then
--
-- Why so: adding and subtracting twice is not the same as once. An answer may get lost and its
-- request be repeated; the record, which goes by itself when nobody can repeat it any more, makes
-- that the same request.
local asked = redis.call('GET', KEYS[3])
if asked then
    return tonumber(asked)
end
