select airline, count(*) as flights, sum(arr_delay) as delay
from {{ ref('fct_flights') }}
group by airline
