package mesh

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// NodeMetadataOf returns the metadata of a node. An invalid value leaves its own field empty, and
// the names of the invalid fields are returned, sorted. Null values are ignored. As in
// encoding/json, a name may differ from its field's in case; of several names of one field the last
// in alphabetical order applies. The result shares strings with s, and no other memory.
func NodeMetadataOf(s *structpb.Struct) (NodeMetadata, []string) {
	var d metadataDecoder
	for _, name := range slices.Sorted(maps.Keys(s.GetFields())) {
		value := s.Fields[name]
		switch kind := value.GetKind().(type) {
		case *structpb.Value_NullValue, nil:
		case *structpb.Value_StringValue:
			d.setText(name, kind.StringValue)
		default:
			d.setValue(name, func() ([]byte, error) { return protojson.Marshal(value) })
		}
	}
	return d.metadata, d.invalid
}

// ParseNodeMetadata returns the metadata of a node in JSON form, like NodeMetadataOf. Text that is
// no object yields empty metadata.
func ParseNodeMetadata(raw []byte) (NodeMetadata, []string) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return NodeMetadata{}, nil
	}
	var d metadataDecoder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value, text := fields[name], ""
		switch {
		case string(value) == "null":
		case value[0] == '"' && json.Unmarshal(value, &text) == nil:
			d.setText(name, text)
		default:
			d.setValue(name, func() ([]byte, error) { return value, nil })
		}
	}
	return d.metadata, d.invalid
}

// metadataDecoder collects the fields of NodeMetadata.
type metadataDecoder struct {
	metadata NodeMetadata
	invalid  []string // names
}

// setText sets a field of any type from a string, and adds it to Strings.
func (d *metadataDecoder) setText(name, text string) {
	if d.metadata.Strings == nil {
		d.metadata.Strings = map[string]string{}
	}
	d.metadata.Strings[name] = text
	if i := metadataField(name); i >= 0 && metadataFields[i].Type.Kind() == reflect.String {
		reflect.ValueOf(&d.metadata).Elem().Field(i).SetString(text)
		return
	}
	d.setValue(name, func() ([]byte, error) { return json.Marshal(text) })
}

// setValue sets a field from a value in JSON, which encode returns. If the value is invalid, it adds
// the name to d.invalid. It does nothing, and does not call encode, if there is no such field.
func (d *metadataDecoder) setValue(name string, encode func() ([]byte, error)) {
	i := metadataField(name)
	if i < 0 {
		return
	}
	value := reflect.New(metadataFields[i].Type)
	raw, err := encode()
	if err == nil {
		err = json.Unmarshal(raw, value.Interface())
	}
	if err != nil {
		d.invalid = append(d.invalid, name)
		return
	}
	reflect.ValueOf(&d.metadata).Elem().Field(i).Set(value.Elem())
}

// metadataFields are the fields of NodeMetadata in their order, and metadataNames their indexes by
// their name in JSON.
var (
	metadataFields = reflect.VisibleFields(reflect.TypeFor[NodeMetadata]())
	metadataNames  = indexMetadataNames()
)

// indexMetadataNames returns metadataNames.
func indexMetadataNames() map[string]int {
	names := map[string]int{}
	for i, f := range metadataFields {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			names[name] = i
		}
	}
	return names
}

// metadataField returns the index of the field with this name in JSON, in any case, or -1.
func metadataField(name string) int {
	if i, ok := metadataNames[name]; ok {
		return i
	}
	for other, i := range metadataNames {
		if strings.EqualFold(other, name) {
			return i
		}
	}
	return -1
}
