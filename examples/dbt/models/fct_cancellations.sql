{{ config(materialized='incremental', incremental_strategy='append') }}
select day, carrier, flight, origin from {{ ref('stg_flights') }}
where fate = 'cancelled'
{% if is_incremental() %}
and day > (select coalesce(max(day), date '1900-01-01') from {{ this }})
{% endif %}
