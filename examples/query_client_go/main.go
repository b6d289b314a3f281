// Gets text by BIGINT keys from a query service of Tidelake's on this machine:
// go run . TABLE_DIRECTORY DATABASE.TABLE COLUMN KEY...
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"

	pb "example.com/tidelake-get/queryv1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	file, err := os.ReadFile(os.Args[1] + "/service/service-tidelake-query") // 1. where to ask
	check(err)
	var service struct{ Address string }
	check(json.Unmarshal(file, &service))
	layout, err := pb.NewAddressClient(connect(service.Address)).Locate(context.Background(),
		&pb.LocateRequest{Protocol: 1, Table: os.Args[2]}) // 2. who has the rows
	check(err)
	keys := &pb.Column{}
	for _, text := range os.Args[4:] { // 3. the keys, as a packed column
		key, err := strconv.ParseInt(text, 10, 64)
		check(err)
		keys.Values = binary.LittleEndian.AppendUint64(keys.Values, uint64(key))
	}
	request := &pb.LookupRequest{Protocol: 1, Table: os.Args[2], Epoch: layout.Epoch,
		Keys:    &pb.PackedRows{Count: uint32(len(os.Args) - 4), Columns: []*pb.Column{keys}},
		Columns: []string{os.Args[3]}}
	for _, executor := range layout.Executors { // 4. without slices, each looks in all it has
		reply, err := pb.NewTableQueryClient(connect(executor.Address)).Lookup(context.Background(), request)
		check(err)
		text, row := reply.Rows.Columns[0], 0
		for i, key := range os.Args[4:] {
			if reply.Found[i/8]>>(i%8)&1 == 1 { // the rows found, in the order of the keys
				begin := binary.LittleEndian.Uint32(text.Offsets[4*row:])
				end := binary.LittleEndian.Uint32(text.Offsets[4*row+4:])
				fmt.Printf("%s %s %d\n", key, text.Values[begin:end], reply.Version.Snapshot)
				row++
			}
		}
	}
}

func connect(address string) *grpc.ClientConn {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	return connection
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
