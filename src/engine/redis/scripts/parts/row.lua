-- SPDX-License-Identifier: Apache-2.0
--
-- Stands behind token.lua where a grant may be for several in a row: `token` is the first of them.
--
-- KEYS   1 the token counter
-- Locals token, asked (see token.lua), more (how many besides the first)
--
-- Why so: SET keeps to the rights that token.lua needs anyway. Asked again, the counter stands at
-- the last one of the row.
if more > 0 then
    if asked then
        token = token - more
    else
        redis.call('SET', KEYS[1], string.format('%.0f', token + more), 'KEEPTTL')
    end
end
