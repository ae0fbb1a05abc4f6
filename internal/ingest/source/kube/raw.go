package kube

import (
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/kube"
)

// rawObject is an object in the JSON of the API server, of which only the metadata is parsed. The
// maps of client-go's dynamic client take many times the memory and would have to be encoded again
// for decoding.
type rawObject struct {
	metav1.TypeMeta
	// name, namespace, UID, resource version, generation, labels, and the annotation of bookmarks
	metav1.ObjectMeta
	body []byte
}

// rawList is a list of rawObjects.
type rawList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject returns a copy that shares the immutable text.
func (o *rawObject) DeepCopyObject() runtime.Object { c := *o; return &c }

// DeepCopyObject returns a copy that shares the immutable objects.
func (l *rawList) DeepCopyObject() runtime.Object { c := *l; return &c }

// rawCodec decodes objects, lists and statuses of any kind from JSON.
type rawCodec struct{}

var _ runtime.Serializer = rawCodec{}

// Decode decodes a response of an API server or an object of a watch event. The result is the list
// into if that is a *rawList, a Status, or a rawObject. That has the identity and labels as
// metadata, no annotation but the mark of the end of initial events, and data itself as its body.
// It returns an error for invalid JSON.
func (rawCodec) Decode(
	data []byte,
	_ *schema.GroupVersionKind,
	into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	if list, ok := into.(*rawList); ok {
		return decodeList(data, list)
	}
	var head struct {
		metav1.TypeMeta
		Metadata struct {
			Name            string            `json:"name"`
			Namespace       string            `json:"namespace"`
			UID             types.UID         `json:"uid"`
			ResourceVersion string            `json:"resourceVersion"`
			Generation      int64             `json:"generation"`
			Labels          map[string]string `json:"labels"`
			Annotations     map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, nil, fmt.Errorf("read an object: %w", err)
	}
	gvk := head.GroupVersionKind()
	if gvk.Kind == "Status" && gvk.Group == "" {
		status := &metav1.Status{}
		if err := json.Unmarshal(data, status); err != nil {
			return nil, nil, fmt.Errorf("read a status: %w", err)
		}
		return status, &gvk, nil
	}
	o := &rawObject{TypeMeta: head.TypeMeta, body: data}
	o.Name = head.Metadata.Name
	o.Namespace = head.Metadata.Namespace
	o.UID = head.Metadata.UID
	o.ResourceVersion = head.Metadata.ResourceVersion
	o.Generation, o.Labels = head.Metadata.Generation, head.Metadata.Labels
	if end, is := head.Metadata.Annotations[metav1.InitialEventsAnnotationKey]; is {
		o.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: end}
	}
	return o, &gvk, nil
}

// decodeList decodes a list into list, whose content it replaces, and returns it. It returns an
// error for invalid JSON, also of one of its objects.
func decodeList(data []byte, list *rawList) (runtime.Object, *schema.GroupVersionKind, error) {
	var text struct {
		metav1.TypeMeta
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &text); err != nil {
		return nil, nil, fmt.Errorf("read a list: %w", err)
	}
	list.TypeMeta, list.ListMeta = text.TypeMeta, text.Metadata
	list.Items = make([]runtime.Object, len(text.Items))
	for i, body := range text.Items {
		o, _, err := rawCodec{}.Decode(body, nil, nil)
		if err != nil {
			return nil, nil, err
		}
		list.Items[i] = o
	}
	gvk := list.GroupVersionKind()
	return list, &gvk, nil
}

// Encode returns an error: objects are only read.
func (rawCodec) Encode(o runtime.Object, _ io.Writer) error {
	return fmt.Errorf("encode %T: objects are only read", o)
}

// Identifier returns the name of the codec.
func (rawCodec) Identifier() runtime.Identifier { return "meshpilot-raw" }

// rawNegotiation makes a REST client use rawCodec.
type rawNegotiation struct{ events runtime.Serializer }

var _ runtime.NegotiatedSerializer = rawNegotiation{}

// SupportedMediaTypes returns JSON only: API servers serve custom objects in no other form that is
// supported here.
func (n rawNegotiation) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{
		MediaType: "application/json", MediaTypeType: "application", MediaTypeSubType: "json", EncodesAsText: true,
		Serializer: rawCodec{},
		StreamSerializer: &runtime.StreamSerializerInfo{
			EncodesAsText: true,
			Serializer:    n.events,
			Framer:        serializer.Framer,
		},
	}}
}

// EncoderForVersion returns e unchanged.
func (rawNegotiation) EncoderForVersion(e runtime.Encoder, _ runtime.GroupVersioner) runtime.Encoder {
	return e
}

// DecoderToVersion returns d unchanged: versions are not converted.
func (rawNegotiation) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return d
}

// newRawClient returns a client for objects of any kind that shares the connections of c. It
// decodes JSON with rawCodec. It returns an error if the configuration of c is invalid.
func newRawClient(c *kube.Client) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config := rest.CopyConfig(c.Config)
	config.GroupVersion = &schema.GroupVersion{}
	config.AcceptContentTypes, config.ContentType = "application/json", "application/json"
	config.NegotiatedSerializer = rawNegotiation{
		serializer.NewSerializerWithOptions(
			serializer.DefaultMetaFactory,
			scheme,
			scheme,
			serializer.SerializerOptions{},
		),
	}
	client, err := rest.UnversionedRESTClientForConfigAndClient(config, c.HTTP)
	if err != nil {
		return nil, fmt.Errorf("make a client for custom objects of %s: %w", config.Host, err)
	}
	return client, nil
}
