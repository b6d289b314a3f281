select carrier, name as airline from {{ ref('airlines') }}
