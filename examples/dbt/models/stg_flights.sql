{{ config(tblproperties={'bucket': '2', 'primary-key': 'day,carrier,flight,origin'}) }}
select
    make_date(year, month, day) as day, carrier, flight, origin, dest, tailnum, distance,
    dep_delay, arr_delay, hour,
    case when dep_time is null then 'cancelled' when arr_delay is null then 'diverted'
         else 'landed' end as fate
from {{ source('raw', 'flights') }}
