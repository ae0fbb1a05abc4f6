package kube

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/retired"
)

// fieldFilter selects the fields of a protobuf message that are decoded. trim.go removes the same
// fields after decoding; removing them before saves most of the cost of a Pod, which consists of
// environment variables, volumes, probes and managed fields.
type fieldFilter struct {
	// fields has the filter of a field by its number: keep, remove, or a filter for the message in
	// the field.
	fields []*fieldFilter
	// keepOthers keeps the fields without a filter. Otherwise they are removed.
	keepOthers bool
	// wanted reports whether a message in a repeated field is kept. If nil, all are.
	wanted func(message []byte) bool
}

// keep and remove are the filters of fields that are kept as they are, and of removed ones.
var (
	keep   = &fieldFilter{keepOthers: true}
	remove = &fieldFilter{}
)

// The filters of messages. The numbers are those of the fields in the generated.proto files of
// Kubernetes, and never change.
var (
	metadataFilter = &fieldFilter{keepOthers: true, fields: []*fieldFilter{
		2:  remove, // generateName
		14: remove, // finalizers
		17: remove, // managedFields
	}}
	containerFilter = &fieldFilter{fields: []*fieldFilter{
		1:  keep, // name
		6:  keep, // ports
		24: keep, // restartPolicy
	}}
	podFilter = &fieldFilter{fields: []*fieldFilter{
		1: metadataFilter.withField(12, &fieldFilter{keepOthers: true, wanted: isUsedAnnotation}), // annotations
		2: {fields: []*fieldFilter{ // spec
			2:  containerFilter, // containers
			8:  keep,            // serviceAccountName
			10: keep,            // nodeName
			11: keep,            // hostNetwork
			16: keep,            // hostname
			17: keep,            // subdomain
			20: containerFilter, // initContainers
		}},
		3: {fields: []*fieldFilter{ // status
			1: keep, // phase
			2: {wanted: isReadyCondition, fields: []*fieldFilter{ // conditions
				1: keep, // type
				2: keep, // status
			}},
			6:  keep, // podIP
			12: keep, // podIPs
		}},
	}}
	nodeFilter = &fieldFilter{fields: []*fieldFilter{
		1: metadataFilter,
		3: {fields: []*fieldFilter{5: keep}}, // status.addresses
	}}
	otherFilter = &fieldFilter{keepOthers: true, fields: []*fieldFilter{1: metadataFilter}}
)

// isUsedAnnotation reports whether an annotation of a pod, an encoded map entry, is retired, or that
// of the bookmark after the initial objects of a watch. trimPod keeps only retired ones, but without
// the other one client-go would wait for further initial objects.
func isUsedAnnotation(entry []byte) bool {
	const key = 1
	name := string(lastBytes(entry, key))
	_, reported := retired.AnnotationOf(name)
	return reported || name == metav1.InitialEventsAnnotationKey
}

// isReadyCondition reports whether an encoded PodCondition is that of the type Ready, the only one
// that trimPod keeps.
func isReadyCondition(condition []byte) bool {
	const conditionType = 1
	return string(lastBytes(condition, conditionType)) == string(corev1.PodReady)
}

// objectFilterOf returns the filter of the objects of a built-in kind. Pods and Nodes have filters
// of their own; all other kinds share one.
func objectFilterOf(kind api.Kind) *fieldFilter {
	switch kind {
	case api.Pod:
		return podFilter
	case api.Node:
		return nodeFilter
	default:
		return otherFilter
	}
}

// withField returns a copy of f with another filter of the field with this number, which must not be
// above the numbers in f.fields.
func (f *fieldFilter) withField(number int, inner *fieldFilter) *fieldFilter {
	out := *f
	out.fields = slices.Clone(f.fields)
	out.fields[number] = inner
	return &out
}

// inField2 returns a filter of a message that applies f to its field 2 and keeps the others. This
// is the object in a runtime.Unknown, and the items in a list.
func (f *fieldFilter) inField2() *fieldFilter {
	return &fieldFilter{keepOthers: true, fields: []*fieldFilter{2: f}}
}

// filterOf returns the filter of the field with this number: its own filter, otherwise keep if f
// keeps other fields, and remove if not.
func (f *fieldFilter) filterOf(number protowire.Number) *fieldFilter {
	switch {
	case int(number) < len(f.fields) && f.fields[number] != nil:
		return f.fields[number]
	case f.keepOthers:
		return keep
	default:
		return remove
	}
}

// appendFiltered appends an encoded message to out without the fields that f removes and the
// repeated messages that are not wanted, and returns the extended slice. It returns an error if the
// message, or one in a field with a filter, is not encoded correctly.
func (f *fieldFilter) appendFiltered(out, message []byte) ([]byte, error) {
	for len(message) > 0 {
		number, wireType, tagSize := protowire.ConsumeTag(message)
		if tagSize < 0 {
			return nil, fmt.Errorf("read a protobuf tag: %w", protowire.ParseError(tagSize))
		}
		valueSize := protowire.ConsumeFieldValue(number, wireType, message[tagSize:])
		if valueSize < 0 {
			return nil, fmt.Errorf("read protobuf field %d: %w", number, protowire.ParseError(valueSize))
		}
		field := message[:tagSize+valueSize]
		message = message[tagSize+valueSize:]
		switch inner := f.filterOf(number); {
		case inner == remove:
		case inner == keep:
			out = append(out, field...)
		case wireType != protowire.BytesType:
			return nil, fmt.Errorf("protobuf field %d is no message", number)
		default:
			value, _ := protowire.ConsumeBytes(field[tagSize:])
			if inner.wanted != nil && !inner.wanted(value) {
				continue
			}
			var err error
			out = append(out, field[:tagSize]...)
			if out, err = inner.appendMessage(out, value); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// appendMessage appends the filtered message to out, preceded by its length, and returns the
// extended slice. The error is that of appendFiltered.
func (f *fieldFilter) appendMessage(out, message []byte) ([]byte, error) {
	start := len(out)
	out, err := f.appendFiltered(out, message)
	if err != nil {
		return nil, err
	}
	size := len(out) - start
	lengthSize := protowire.SizeVarint(uint64(size))
	for range lengthSize {
		out = append(out, 0)
	}
	copy(out[start+lengthSize:], out[start:start+size])
	protowire.AppendVarint(out[:start], uint64(size))
	return out, nil
}

// protobufPrefix precedes everything that an API server encodes as protobuf. A runtime.Unknown
// follows, which has the type and the encoded object.
var protobufPrefix = []byte("k8s\x00")

// filteringDecoder decodes the objects and lists of one kind after removing the fields that are
// not used. It passes everything else, such as a Status, to the serializer as it is.
type filteringDecoder struct {
	runtime.Serializer
	kind         string
	object, list *fieldFilter // of the runtime.Unknown around an object or a list
}

// newFilteringDecoder returns a decoder for the objects and lists of a kind in protobuf.
func newFilteringDecoder(kind api.KindInfo, protobuf runtime.Serializer) filteringDecoder {
	filter := objectFilterOf(kind.Kind)
	return filteringDecoder{
		Serializer: protobuf,
		kind:       kind.Kind.Name(),
		object:     filter.inField2(),
		list:       filter.inField2().inField2(),
	}
}

// Decode decodes an object like the serializer, without the fields that are removed. Data that
// cannot be filtered are decoded as they are.
func (d filteringDecoder) Decode(
	data []byte,
	defaults *schema.GroupVersionKind,
	into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	buffer := filterBuffers.Get().(*[]byte)
	defer func() {
		if cap(*buffer) <= maxFilterBuffer {
			filterBuffers.Put(buffer)
		}
	}()
	if filtered, err := d.appendFiltered((*buffer)[:0], data); err == nil {
		*buffer, data = filtered, filtered
	}
	return d.Serializer.Decode(data, defaults, into) // reports malformed data, and keeps no part of data
}

// filterBuffers is a pool of buffers (*[]byte) for filtered objects. Buffers above maxFilterBuffer,
// which only lists need, are not returned to the pool.
var filterBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxFilterBuffer = 64 << 10

// errNotFiltered is returned for data that is neither an object nor a list of the kind.
var errNotFiltered = errors.New("not an object of the kind")

// appendFiltered appends data, an encoded object or list of objects, to out without the fields that
// are removed, and returns the extended slice. It returns errNotFiltered if data is not protobuf,
// or is neither an object nor a list of the kind. A malformed message is another error.
func (d filteringDecoder) appendFiltered(out, data []byte) ([]byte, error) {
	message, found := bytes.CutPrefix(data, protobufPrefix)
	if !found {
		return nil, errNotFiltered
	}
	var f *fieldFilter
	switch kind := encodedKind(message); string(kind) {
	case d.kind:
		f = d.object
	case d.kind + "List":
		f = d.list
	default:
		return nil, errNotFiltered
	}
	out = slices.Grow(out, len(data)/8+512) // an object keeps about a tenth of its size
	return f.appendFiltered(append(out, protobufPrefix...), message)
}

// filteringNegotiation makes a REST client decode the objects of one kind with a filteringDecoder.
type filteringNegotiation struct {
	runtime.NegotiatedSerializer
	kind api.KindInfo
}

// SupportedMediaTypes returns the media types of the NegotiatedSerializer, with filtering decoders for
// protobuf objects and watch events.
func (n filteringNegotiation) SupportedMediaTypes() []runtime.SerializerInfo {
	list := slices.Clone(n.NegotiatedSerializer.SupportedMediaTypes())
	for i := range list {
		if list[i].MediaType == runtime.ContentTypeProtobuf {
			d := newFilteringDecoder(n.kind, list[i].Serializer)
			stream := *list[i].StreamSerializer
			stream.Serializer = watchEventDecoder{stream.Serializer, d}
			list[i].Serializer, list[i].StreamSerializer = d, &stream
		}
	}
	return list
}

// newBuiltInClient returns a client for a built-in kind that shares the connections and the rate
// limit of c. It decodes only the fields of objects that are used. It returns an error if client-go
// does not know the kind's group and version.
func newBuiltInClient(c *kube.Client, kind api.KindInfo) (*rest.RESTClient, error) {
	version := schema.GroupVersion{Group: kind.Group, Version: kind.Versions[0]}
	if !scheme.Scheme.IsVersionRegistered(version) {
		return nil, fmt.Errorf("kind %s: there is no client for group %q", kind.Kind, kind.Group)
	}
	config := rest.CopyConfig(c.Config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	if kind.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = filteringNegotiation{scheme.Codecs.WithoutConversion(), kind}
	buffered := *c.HTTP
	buffered.Transport = bufferedBodies{cmp.Or(c.HTTP.Transport, http.DefaultTransport)}
	client, err := rest.RESTClientForConfigAndClient(config, &buffered)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s of %s: %w", kind.Plural, config.Host, err)
	}
	return client, nil
}

// encodedKind returns the kind in an encoded runtime.Unknown, which shares memory with it, or nil
// if it has none.
func encodedKind(unknown []byte) []byte {
	const typeField, kindField = 1, 2
	return lastBytes(lastBytes(unknown, typeField), kindField)
}

// lastBytes returns the last value of a field of strings or messages in an encoded message, which
// shares its memory. It returns nil if the message has no such field or is malformed.
func lastBytes(message []byte, field protowire.Number) []byte {
	var last []byte
	for len(message) > 0 {
		number, wireType, n := protowire.ConsumeField(message)
		if n < 0 {
			return nil
		}
		if number == field && wireType == protowire.BytesType {
			_, _, tagSize := protowire.ConsumeTag(message)
			last, _ = protowire.ConsumeBytes(message[tagSize:])
		}
		message = message[n:]
	}
	return last
}
