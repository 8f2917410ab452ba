-- SPDX-License-Identifier: Apache-2.0
--
-- Part of the scripts of read/write locks: which readers are alive, and for how long.
--
-- Locals lock (its key), prefix (its name in braces, before an owner string)
-- Result in the locals stale (the fields of readers none of whose timeout keys is left), longest
--        (how long the last living one may stay, in ms; -2: nobody is alive; math.huge: nobody
--        knows), and complete (all of them were looked at)
--
-- Why so: each hold of a reader has a key of its own whose TTL is the hold's lease, as Redisson has
-- it; the field alone proves nothing, for it stays as long as any reader does. The work has a
-- bound: 64 readers, and of each its last 64 holds. What is no count is nobody's whom we know, and
-- counts as alive.
local page = redis.call('HSCAN', lock, 0, 'COUNT', 64)
local fields = page[2]
local complete = page[1] == '0' and #fields <= 130
local longest = -2
local stale = {}
for i = 1, math.min(#fields, 130), 2 do
    local field, count = fields[i], tonumber(fields[i + 1])
    if field ~= 'mode' then
        local left = count and -2 or math.huge
        for hold = math.max((count or 0) - 63, 1), count or 0 do
            local ttl = redis.call('PTTL', prefix .. ':' .. field .. ':rwlock_timeout:' .. hold)
            left = math.max(left, ttl == -1 and math.huge or ttl)
        end
        if left == -2 then
            stale[#stale + 1] = field
        end
        longest = math.max(longest, left)
    end
end
