#!/usr/bin/env bash
# Makes the Go code of the messages: generate.sh DIRECTORY_OF_THE_PROTO_FILE. Needs go, and protoc or grpcio-tools.
set -euo pipefail
cd "$(dirname "$0")"
export GOBIN="$PWD/bin" PATH="$PWD/bin:$PATH"
go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.10
go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.5.1
read -ra protoc <<< "${PROTOC:-protoc}"
own=Mtidelake_query_v1.proto=example.com/tidelake-get/queryv1
mkdir -p queryv1
"${protoc[@]}" "-I$1" --go_out=queryv1 --go_opt=paths=source_relative "--go_opt=$own" \
  --go-grpc_out=queryv1 --go-grpc_opt=paths=source_relative "--go-grpc_opt=$own" tidelake_query_v1.proto
