{{ config(
    materialized='incremental',
    incremental_strategy='insert_overwrite',
    partition_by='day'
) }}
select origin, count(*) as flights, count_if(fate = 'cancelled') as cancelled,
       sum(arr_delay) as delay, day
from {{ ref('stg_flights') }}
{% if is_incremental() %}
where day >= (select max(day) from {{ this }})
{% endif %}
group by origin, day
