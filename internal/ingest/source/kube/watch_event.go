package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// watchEventDecoder decodes the events of a watch of one kind. It removes the unused fields of the
// object in an event while the event is in the buffer of the stream. Otherwise the whole object
// would be copied from there, which is a quarter of all that a control plane allocates at its
// start.
type watchEventDecoder struct {
	runtime.Serializer
	objects filteringDecoder
}

// Decode decodes a WatchEvent like the serializer, without the unused fields of its object. An
// event with an object that cannot be filtered, such as a Status, and any other message are passed
// to the serializer as they are.
func (d watchEventDecoder) Decode(
	data []byte,
	defaults *schema.GroupVersionKind,
	into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	if event, ok := into.(*metav1.WatchEvent); ok && d.decodeEvent(data, event) {
		return event, new(schema.GroupVersionKind), nil
	}
	return d.Serializer.Decode(data, defaults, into) // reports malformed data
}

// decodeEvent sets event from its encoded form, and reports whether it could: whether its object
// can be filtered. Otherwise it leaves event as it is.
func (d watchEventDecoder) decodeEvent(data []byte, event *metav1.WatchEvent) bool {
	const typeField, objectField, rawField = 1, 2, 1
	object, err := d.objects.appendFiltered(nil, lastBytes(lastBytes(data, objectField), rawField))
	if err != nil {
		return false
	}
	event.Type, event.Object = string(lastBytes(data, typeField)), runtime.RawExtension{Raw: object}
	return true
}
