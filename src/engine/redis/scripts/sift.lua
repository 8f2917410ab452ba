-- SPDX-License-Identifier: Apache-2.0
--
-- A page of the strings that are textbook locks or semaphores, for people who look.
--
-- KEYS   none: nobody knows them before
-- ARGV   1 the cursor, 2 the pattern, 3 how many keys to look at
-- Result as SCAN answers: the next cursor, and an array of keys
--
-- Why so: most strings of a server are somebody's data, so they are looked at where they are, and
-- neither their names nor what they say is sent. A lock says who holds it, and has a TTL. A
-- semaphore is a number beside which there is a list of permits that are out. What the user may not
-- read is passed over; but of a number that may be read while its list may not nobody can say that
-- it is no semaphore, unless it is one of our own keys.
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'string')
local found = {}
for i = 1, #page[2] do
    local key = page[2][i]
    local value = redis.pcall('GETRANGE', key, 0, 63)
    local owner = type(value) == 'string' and string.match(value, '^(%x[%x%-]+):%d+$')
    local count = type(value) == 'string' and #value <= 11 and string.match(value, '^%-?%d+$')
    if owner and #owner == 36 and redis.call('PTTL', key) >= 0 then
        found[#found + 1] = key
    elseif count then
        local base = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
        local out = redis.pcall('ZCARD', base .. ':timeout')
        if type(out) == 'number' and out > 0 then
            found[#found + 1] = key
        elseif type(out) == 'table' and not string.find(out['err'], 'WRONGTYPE', 1, true) then
            local prefix = string.match(key, '^[%l_]+:')
            if prefix ~= 'redisson_lock_token:' and prefix ~= 'pawl_seen:' and
                prefix ~= 'pawl_asked:' then
                return out
            end
        end
    end
end
return {page[1], found}
