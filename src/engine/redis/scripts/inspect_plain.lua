-- SPDX-License-Identifier: Apache-2.0
--
-- Who holds the textbook lock?
--
-- KEYS   1 the lock
-- Result as inspect.lua answers: the holder's owner string ('' if it is free), its hold count, the
--        TTL in ms (-1: none, -2: free), and '0', for there is no token
--
-- Why so: what the string says is shown, whoever wrote it, but not more of it than a name may have.
local owner = redis.call('GET', KEYS[1])
return {string.sub(owner or '', 1, 255), owner and '1' or '0', redis.call('PTTL', KEYS[1]), '0'}
