package nametable_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// nameTableType is istio.networking.nds.v1.NameTable, written from its public definition: the type
// with which Istio's agent decodes.
func nameTableType(t testing.TB) protoreflect.MessageDescriptor {
	t.Helper()
	field := func(name string, number int32, label descriptorpb.FieldDescriptorProto_Label, kind descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Label: &label, Type: &kind}
		if of != "" {
			f.TypeName = &of
		}
		return f
	}
	const (
		one     = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
		many    = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
		text    = descriptorpb.FieldDescriptorProto_TYPE_STRING
		message = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
		self    = ".istio.networking.nds.v1.NameTable"
	)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("nds.proto"), Package: proto.String("istio.networking.nds.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name:  proto.String("NameTable"),
			Field: []*descriptorpb.FieldDescriptorProto{field("table", 1, many, message, self+".TableEntry")},
			NestedType: []*descriptorpb.DescriptorProto{
				{
					Name: proto.String("NameInfo"),
					Field: []*descriptorpb.FieldDescriptorProto{
						field("ips", 1, many, text, ""), field("registry", 2, one, text, ""), field("shortname", 3, one, text, ""),
						field("namespace", 4, one, text, ""), field("alt_hosts", 5, many, text, ""),
					},
				},
				{
					Name: proto.String("TableEntry"),
					Field: []*descriptorpb.FieldDescriptorProto{
						field("key", 1, one, text, ""), field("value", 2, one, message, self+".NameInfo"),
					},
					Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
				},
			},
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().ByName("NameTable")
}

// decoded decodes a table with the protobuf library. It fails the test unless the bytes are the
// library's canonical encoding.
func decoded(t testing.TB, body []byte) *dynamicpb.Message {
	t.Helper()
	m := dynamicpb.NewMessage(nameTableType(t))
	if err := proto.Unmarshal(body, m); err != nil {
		t.Fatal(err)
	}
	if len(m.GetUnknown()) > 0 {
		t.Errorf("unknown fields %x", m.GetUnknown())
	}
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(body) {
		t.Errorf("not canonical: %d bytes, the library makes %d", len(body), len(again))
	}
	return m
}
