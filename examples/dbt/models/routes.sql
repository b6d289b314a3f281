{{ config(tblproperties={'bucket': '1', 'primary-key': 'origin,dest'}) }}
select origin, dest, count(*) as flights, max(distance) as distance
from {{ ref('stg_flights') }}
group by origin, dest
