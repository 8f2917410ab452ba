-- SPDX-License-Identifier: Apache-2.0
--
-- A page of the strings that are textbook locks, for people who look.
--
-- KEYS   none: nobody knows them before
-- ARGV   1 the cursor, 2 the pattern, 3 how many keys to look at
-- Result as SCAN answers: the next cursor, and an array of keys
--
-- Why so: most strings of a server are somebody's data, so they are looked at where they are, and
-- neither their names nor what they say is sent. A lock says who holds it, and has a TTL. What the
-- user may not read is passed over.
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'string')
local found = {}
for i = 1, #page[2] do
    local key = page[2][i]
    local value = redis.pcall('GETRANGE', key, 0, 63)
    local owner = type(value) == 'string' and string.match(value, '^(%x[%x%-]+):%d+$')
    if owner and #owner == 36 and redis.call('PTTL', key) >= 0 then
        found[#found + 1] = key
    end
end
return {page[1], found}
