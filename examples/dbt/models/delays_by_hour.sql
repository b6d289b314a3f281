select hour, count(*) as flights, sum(dep_delay) as delay
from {{ ref('stg_flights') }}
group by hour
