-- SPDX-License-Identifier: Apache-2.0
--
-- Let a token counter be at least so much, so that the next token is greater.
--
-- KEYS   1 the token counter
-- ARGV   1 the token, 2 how long a new token counter lives in s (0: ever)
-- Result 1
--
-- Why so: the servers of a quorum count for themselves. When their tokens differ, the greatest is
-- the holder's, and it must be known to so many servers that the next majority meets one of them.
-- The digits are written as they came: Lua would lose some of a large number. The TTL stays.
local token = redis.pcall('GET', KEYS[1])
if type(token) == 'table' then
    return token.err:find('^WRONGTYPE') and redis.error_reply('TOKENTYPE not a counter') or token
end
if (tonumber(token or '') or 0) < tonumber(ARGV[1]) then
    if token or ARGV[2] == '0' then
        redis.call('SET', KEYS[1], ARGV[1], 'KEEPTTL')
    else
        redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
    end
end
return 1
