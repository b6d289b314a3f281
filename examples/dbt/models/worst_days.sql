select day, sum(cancelled) as cancelled, sum(delay) as delay
from {{ ref('daily_by_origin') }}
group by day
order by delay desc, day
limit 10
