select f.tailnum, p.model, count(*) as flights, sum(f.distance) as miles
from {{ ref('stg_flights') }} f
join {{ ref('dim_planes') }} p on f.tailnum = p.tailnum
group by f.tailnum, p.model
