{{ config(
    materialized='incremental',
    incremental_strategy='merge',
    unique_key=['day', 'carrier', 'flight', 'origin'],
    tblproperties={'bucket': '2', 'primary-key': 'day,carrier,flight,origin'}
) }}
select f.day, f.carrier, f.flight, f.origin, f.dest, f.tailnum, f.fate, f.dep_delay, f.arr_delay,
       a.airline
from {{ ref('stg_flights') }} f
left join {{ ref('dim_airlines') }} a on f.carrier = a.carrier
{% if is_incremental() %}
where f.day >= (select max(day) from {{ this }})
{% endif %}
