package server

import (
	"runtime"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// inBuffers splits a message as gRPC receives it, into buffers of n bytes.
func inBuffers(raw []byte, n int) mem.BufferSlice {
	var list mem.BufferSlice
	for part := range slices.Chunk(raw, n) {
		list = append(list, mem.SliceBuffer(part))
	}
	return list
}

func field(number protowire.Number, size int) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), make([]byte, size))
}

// TestLargeFieldsAreRefusedUndecoded: requests are refused because of the lengths of their fields,
// without decoding, wherever the buffers of a message end.
func TestLargeFieldsAreRefusedUndecoded(t *testing.T) {
	const names = 1000
	version := protowire.AppendVarint(protowire.AppendTag(nil, 90, protowire.VarintType), 1<<60)
	fixed := protowire.AppendFixed64(protowire.AppendTag(nil, 91, protowire.Fixed64Type), 1)
	fixed = protowire.AppendFixed32(protowire.AppendTag(fixed, 92, protowire.Fixed32Type), 1)
	before := slices.Concat(field(asksSotWVersion, 10), version, fixed)
	for name, tt := range map[string]struct {
		raw     []byte
		refused bool
	}{
		"node":                   {slices.Concat(before, field(asksSotWNode, 16<<20)), true},
		"node at the limit":      {slices.Concat(before, field(asksSotWNode, maxFieldBytes)), false},
		"node above it":          {slices.Concat(before, field(asksSotWNode, maxFieldBytes+1)), true},
		"unknown field":          {slices.Concat(before, field(100, 2<<20)), true},
		"refusal":                {slices.Concat(before, field(asksSotWError, 2<<20)), false},
		"node behind a refusal":  {slices.Concat(field(asksSotWError, 2<<20), field(asksSotWNode, 2<<20)), true},
		"as many fields":         {slices.Repeat(field(asksSotWNames, 3), names), false},
		"one more":               {slices.Repeat(field(asksSotWNames, 3), names+1), true},
		"ends in a tag":          {slices.Concat(before, []byte{0x80}), false},
		"longer than the rest":   {protowire.AppendVarint(protowire.AppendTag(nil, asksSotWNames, protowire.BytesType), 1000), false},
		"a group":                {protowire.AppendTag(nil, 5, protowire.StartGroupType), false},
		"length beyond all ints": {protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.BytesType), 1<<63), true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{16 << 10, 1 << 20, len(before) - 1, len(before) + 2} {
				data := inBuffers(tt.raw, size)
				err := checkFields(data, names, asksSotWError)
				if (err != nil) != tt.refused || err != nil && status.Code(err) != codes.ResourceExhausted {
					t.Errorf("in buffers of %d bytes: error %v, want refused = %t", size, err, tt.refused)
				}
				if data.Len() != len(tt.raw) {
					t.Errorf("%d of %d bytes are left for the decoder", data.Len(), len(tt.raw))
				}
			}
		})
	}
}

// TestLargeNodeIsNotCopied checks how many bytes a refused request of 16 MiB allocates.
func TestLargeNodeIsNotCopied(t *testing.T) {
	data := inBuffers(field(asksSotWNode, 16<<20-1024), 16<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := checkFields(data, 1000, asksSotWError)
	runtime.ReadMemStats(&after)
	if err == nil {
		t.Error("the large node is not refused")
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 256<<10 {
		t.Errorf("%d bytes were allocated", n)
	}
}
