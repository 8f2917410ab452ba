-- SPDX-License-Identifier: Apache-2.0
--
-- Give tenures their locks, each of which is free or the tenure's own already: all, or none.
--
-- KEYS   for each lock its token counter and the lock
-- ARGV   1 how long a new token counter lives in s (0: ever), 2 what no token may be below (see
--        parts/token.lua); then for each lock the owner string, the lease in ms, and how many
--        tokens in a row are for this grant
-- Result for each lock: as acquire.lua, if all are granted. If one cannot be, that one has an
--        error, or its answer as acquire.lua gives it and who holds it, and the others have 0: not
--        granted
--
-- Why so: nobody sees a part of the set held. So everything is looked at before anything is
-- granted, and the counters, which somebody may have made something else, count before the first
-- lock is taken: a token that nobody gets harms nobody. Each lock is as acquire.lua makes it, and
-- asked again by the same tenures nothing is counted twice.
local call, count = redis.call, #KEYS / 2
local counter_ttl, floor = ARGV[1], ARGV[2]
local held, tokens, counter = {}, {}, {}
local function refuse(which, answer)
    for i = 1, count do
        tokens[i] = i == which and answer or 0
    end
    return tokens
end
--include holder
for i = 1, count do
    local ttl = call('PTTL', KEYS[2 * i])
    if ttl ~= -2 then
        local own = redis.pcall('HEXISTS', KEYS[2 * i], ARGV[3 * i])
        if own == 0 then
            return refuse(i, {ttl < 0 and -1 or -2 - ttl, holder(KEYS[2 * i])})
        elseif own ~= 1 then
            return refuse(i, own)
        end
        held[i] = true
    end
end
local function draw(KEYS, asked, more)
    --include token
    --include row
    return token
end
for i = 1, count do
    counter[1] = KEYS[2 * i - 1]
    local token = draw(counter, held[i], ARGV[3 * i + 2] - 1)
    if type(token) == 'table' then
        return refuse(i, token)
    end
    tokens[i] = token
end
for i = 1, count do
    local lock, owner = KEYS[2 * i], ARGV[3 * i]
    if not held[i] then
        call('HSET', lock, owner, 1)
    end
    local limited = redis.pcall('PEXPIRE', lock, ARGV[3 * i + 1])
    if limited ~= 1 then
        for j = 1, i do
            if not held[j] and redis.pcall('HDEL', KEYS[2 * j], ARGV[3 * j]) ~= 1 then
                call('DEL', KEYS[2 * j])
            end
        end
        return refuse(i, limited)
    end
end
return tokens
