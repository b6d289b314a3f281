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

{# dbt looks for tables in small letters, and the catalog keeps letters as they are. #}
{% macro spark__generate_alias_name(custom_alias_name=none, node=none) %}
  {%- do return(default__generate_alias_name(custom_alias_name, node) | trim | lower) -%}
{% endmacro %}

{# By the method session dbt-spark writes an empty text as 'None', and fails at a quote. #}
{% macro spark__load_csv_rows(model, agate_table) %}
  {% set wanted = model['config'].get('column_types', {}) %}
  {% set types = [] %}
  {% for name in agate_table.column_names %}
    {% do types.append(wanted.get(name, adapter.convert_type(agate_table, loop.index0))) %}
  {% endfor %}
  {% set statements = [] %}
  {% for rows in agate_table.rows | batch(get_batch_size()) %}
    {% set insert %}
      insert into {{ this.render() }} values
      {% for row in rows %}
        ({% for value in row -%}
          cast({{ tidelake.literal(value) }} as {{ types[loop.index0] }}){{ ", " if not loop.last }}
        {%- endfor %}){{ "," if not loop.last }}
      {% endfor %}
    {% endset %}
    {% do adapter.add_query(insert, abridge_sql_log=True) %}
    {% do statements.append(insert) %}
  {% endfor %}
  {% do return(statements | first) %}
{% endmacro %}

{% macro literal(value) %}
  {%- if value is none -%} null
  {%- else -%} '{{ value | string | replace("\\", "\\\\") | replace("'", "\\'") }}'
  {%- endif -%}
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
