select tailnum, built, manufacturer, model, seats, seats >= 200 as is_large
from {{ ref('stg_planes') }}
