-- SPDX-License-Identifier: Apache-2.0
--
-- Give tenures their locks, which may be of several kinds and each of which can be had or is the
-- tenure's own already: all, or none.
--
-- KEYS   for each lock its token counter (a plain lock has none, and itself here) and the lock;
--        then for each fair lock the queue, and when who counts as dead
-- ARGV   1 how long a new token counter lives in s (0: ever), 2 what no token may be below (see
--        parts/token.lua), 3 what they are, a letter for each lock: `m` a mutex or a spin lock, `f`
--        fair, `p` plain, `r` to read, `w` to write; then for each lock the owner string, the lease
--        in ms, and how many tokens in a row are for this grant; then for each reader the lock's
--        name in braces, and for each fair lock the channel, to which the owner string of who is
--        told is added; and if there is a fair lock, how long a waiter of ours is believed to live
--        without a word in ms
-- Result for each lock: as acquire.lua or acquire_plain.lua, if all are granted. If one cannot be,
--        that one has an error, or its answer as they give it and who holds it, and the others
--        have 0: not granted
--
-- Why so: as acquire_all.lua, which does the same for mutexes and is quicker at that. The keys of
-- readers' holds come before the first lock is taken, as the tokens do. Each lock is as the script
-- of its kind makes it (acquire.lua, acquire_fair.lua, acquire_plain.lua, acquire_read.lua,
-- acquire_write.lua). Nobody stands in a queue for a set, so of a fair lock this is what
-- acquire_fair.lua does for who only tries: it goes to nobody before those who stand there, and
-- the dead among them keep nobody out.
local call, pcall = redis.call, redis.pcall
local counter_ttl, floor, letters, count = ARGV[1], ARGV[2], ARGV[3], #ARGV[3]
local kind_of, ttls, held, holds, lines, tokens, counter = {}, {}, {}, {}, {}, {}, {}
-- own   of a lock that is not free: 1 the owner has it, 0 somebody else, 2 it can be had beside
--       others
-- take  the lock, which is free or can be had beside others
-- undo  that; `alone`: it was free
local kinds = {
    m = {
        own = function(lock, owner)
            return pcall('HEXISTS', lock, owner)
        end,
        take = function(lock, owner)
            return pcall('HSET', lock, owner, 1)
        end,
        undo = function(lock, owner)
            return pcall('HDEL', lock, owner)
        end,
    },
    p = {
        own = function(lock, owner, ttl)
            local holder = pcall('GET', lock)
            if type(holder) == 'table' then
                return holder
            elseif holder == owner then
                return 1
            elseif ttl == -1 and not holder:find('^%x+%-%x+%-%x+%-%x+%-%x+:%d+$') then
                return redis.error_reply('WRONGTYPE the key is a string without a TTL')
            end
            return 0
        end,
        take = function(lock, owner)
            return pcall('SET', lock, owner)
        end,
        undo = function(lock)
            return pcall('DEL', lock)
        end,
    },
    r = {
        own = function(lock, owner)
            local mode = pcall('HGET', lock, 'mode')
            if mode ~= 'read' then
                return type(mode) == 'table' and mode or 0
            end
            return call('HEXISTS', lock, owner) == 1 and 1 or 2
        end,
        take = function(lock, owner)
            return pcall('HSET', lock, 'mode', 'read', owner, 1)
        end,
        undo = function(lock, owner, alone)
            return pcall('HDEL', lock, owner, alone and 'mode' or owner)
        end,
    },
    w = {
        own = function(lock, owner)
            return pcall('HEXISTS', lock, owner .. ':write')
        end,
        take = function(lock, owner)
            return pcall('HSET', lock, 'mode', 'write', owner .. ':write', 1)
        end,
        undo = function(lock, owner)
            return pcall('HDEL', lock, 'mode', owner .. ':write')
        end,
    },
}
kinds.f = kinds.m
local function refuse(which, answer)
    for i = 1, count do
        if holds[i] and not held[i] then
            pcall('DEL', holds[i])
        end
        tokens[i] = i == which and answer or 0
    end
    return tokens
end
--include holder
local burials = 1000 -- in all queues of the set
-- Why the tenure cannot have a fair lock, as far as the queue says; nil: it can.
local function look_at_queue(i, queue, timeouts, owner, channel)
    --include sizes
    if length + times > 0 then
        lines[i] = {queue = queue, timeouts = timeouts, length = length}
    end
    if length == 0 or ttls[i] ~= -2 then
        return nil
    end
    --include queue
    local head, removed = purge(owner, burials)
    burials = burials - removed
    if not head or head == owner then
        return nil
    end
    local ttl, wait = ttls[i], tonumber(ARGV[#ARGV])
    --include reckon
    limit(head)
    if removed > 0 then
        pcall('PUBLISH', channel .. ':' .. head, '0')
    end
    local left = math.min((call('ZSCORE', timeouts, head) or now) - now, 1000)
    return {-2 - math.max(left, 1), ''}
end
local function leave_queue(line, owner)
    if line.length > 0 then
        pcall('ZREM', line.timeouts, owner)
        pcall('LREM', line.queue, 0, owner)
    else
        pcall('DEL', line.timeouts)
    end
end
local queues, more = 2 * count, 3 + 3 * count
for i = 1, count do
    local letter, lock, owner = letters:sub(i, i), KEYS[2 * i], ARGV[3 * i + 1]
    local kind = kinds[letter]
    local ttl = call('PTTL', lock)
    kind_of[i], ttls[i] = kind, ttl
    if letter == 'f' then
        queues, more = queues + 2, more + 1
        local no = look_at_queue(i, KEYS[queues - 1], KEYS[queues], owner, ARGV[more])
        if no then
            return refuse(i, no)
        end
    end
    if ttl ~= -2 then
        local own = kind.own(lock, owner, ttl)
        if own == 0 then
            local who = letter == 'p' and owner_in(call('GET', lock)) or holder(lock)
            return refuse(i, {ttl < 0 and -1 or -2 - ttl, who})
        elseif type(own) == 'table' then
            return refuse(i, own)
        end
        held[i] = own == 1
    end
    if letter == 'r' then
        more = more + 1
        holds[i] = ARGV[more] .. ':' .. owner .. ':rwlock_timeout:1'
    end
end
local function draw(KEYS, asked, more)
    --include token
    --include row
    return token
end
-- The first token of a reader is kept with its hold, as others may have been granted since.
local function draw_reader(hold, asked, more, lease)
    local token = asked and tonumber(call('GET', hold) or '') or 0
    if token < tonumber(floor) then
        token = draw(counter, false, more)
    end
    if type(token) == 'table' then
        return token
    end
    local left = asked and math.max(lease, call('PTTL', hold)) or lease
    local kept = pcall('SET', hold, string.format('%.0f', token), 'PX', left)
    return kept['err'] and kept or token
end
for i = 1, count do
    local more, token = ARGV[3 * i + 3] - 1, 1
    counter[1] = KEYS[2 * i - 1]
    if holds[i] then
        token = draw_reader(holds[i], held[i], more, ARGV[3 * i + 2])
    elseif kind_of[i] ~= kinds.p then
        token = draw(counter, held[i], more)
    end
    if type(token) == 'table' then
        return refuse(i, token)
    end
    tokens[i] = token
end
local function take(i, lock, owner, lease)
    if lines[i] and not held[i] then
        leave_queue(lines[i], owner)
    end
    local taken = held[i] or kind_of[i].take(lock, owner)
    if type(taken) == 'table' and taken['err'] then
        return taken
    end
    return ttls[i] < tonumber(lease) and pcall('PEXPIRE', lock, lease) or 1
end
for i = 1, count do
    local limited = take(i, KEYS[2 * i], ARGV[3 * i + 1], ARGV[3 * i + 2])
    if limited ~= 1 then
        for j = 1, i do
            local lock, owner, alone = KEYS[2 * j], ARGV[3 * j + 1], ttls[j] == -2
            if not held[j] and type(kind_of[j].undo(lock, owner, alone)) == 'table' and alone then
                pcall('DEL', lock)
            end
        end
        return refuse(i, limited)
    end
end
return tokens
