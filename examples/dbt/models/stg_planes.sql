{{ config(tblproperties={'bucket': '1', 'primary-key': 'tailnum'}) }}
select tailnum, cast(year as int) as built, manufacturer, model, seats
from {{ source('raw', 'planes') }}
