{# What dbt-spark does not know of a warehouse of Tidelake. #}

{# Tables of the catalog are its own kind. A seed takes its options here: dbt-spark gives it none. #}
{% macro spark__file_format_clause() %}
  {%- if model.resource_type == 'seed' %} {{ tblproperties_clause() }} {% endif -%}
{% endmacro %}

{# dbt-spark merges into tables of providers that it knows; ours passes as one of these. #}
{% macro spark__list_relations_without_caching(relation) %}
  {% set found = run_query("show table extended in " ~ relation.schema ~ " like '*'") %}
  {% set relations = [] %}
  {% for row in found.rows %}
    {% set said = row[3] | replace("Provider: tidelake", "Provider: iceberg") %}
    {% do relations.append((row[0], row[1], row[2], said)) %}
  {% endfor %}
  {% do return(relations) %}
{% endmacro %}

{# A snapshot's new rows come by a view of the session. The warehouse itself keeps no views. #}
{% macro spark__create_view_as(relation, sql) %}
  {% if relation.schema %}
    {% do exceptions.raise_compiler_error(
      "A warehouse of Tidelake keeps no views of dbt: let " ~ relation ~ " be a 'table' or 'ephemeral'."
    ) %}
  {% endif %}
  {{ create_temporary_view(relation, sql) }}
{% endmacro %}

{# Tables of Tidelake lose columns, too: on_schema_change='sync_all_columns'. #}
{% macro spark__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
  {% if add_columns %}
    {% do run_query("alter table " ~ relation ~ " add columns (" ~ tidelake.definitions(add_columns) ~ ")") %}
  {% endif %}
  {% for column in remove_columns or [] %}
    {% do run_query("alter table " ~ relation ~ " drop column " ~ column.quoted) %}
  {% endfor %}
{% endmacro %}

{% macro definitions(columns) %}
  {%- for column in columns -%}
    {{ column.quoted }} {{ column.data_type }}{{ ", " if not loop.last }}
  {%- endfor -%}
{% endmacro %}
