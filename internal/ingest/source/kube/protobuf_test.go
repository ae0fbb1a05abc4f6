package kube

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// protobufSerializer returns the serializer that client-go decodes protobuf with.
func protobufSerializer() *protobuf.Serializer {
	return protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
}

// encoded returns an object in the protobuf form of an API server.
func encoded(t testing.TB, o runtime.Object, version schema.GroupVersion, kind string) []byte {
	t.Helper()
	o.GetObjectKind().SetGroupVersionKind(version.WithKind(kind))
	var b bytes.Buffer
	if err := protobufSerializer().Encode(o, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// fillAll sets every exported field below v: texts, numbers and elements have different values.
func fillAll(v reflect.Value, next *int) {
	*next++
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.Unix(int64(*next), 0).Rfc3339Copy()))
		return
	case metav1.MicroTime:
		v.Set(reflect.ValueOf(metav1.NewMicroTime(time.Unix(int64(*next), 0))))
		return
	case resource.Quantity:
		v.Set(reflect.ValueOf(*resource.NewQuantity(int64(*next), resource.DecimalSI)))
		return
	case intstr.IntOrString:
		v.Set(reflect.ValueOf(intstr.FromInt(*next)))
		return
	case metav1.TypeMeta:
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(v.Elem(), next)
	case reflect.Struct:
		for i := range v.NumField() {
			fillAll(v.Field(i), next)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillAll(v.Index(i), next)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillAll(key, next)
		fillAll(value, next)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(fmt.Sprint("text-", *next))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*next))
	case reflect.Uint8:
		v.SetUint(uint64(*next % 256))
	default:
		panic("no value for a " + v.Type().String())
	}
}

// filled returns an object of a kind with every field set.
func filled(kind api.KindInfo) metav1.Object {
	o, next := kind.NewObject(), 0
	fillAll(reflect.ValueOf(o).Elem(), &next)
	if p, is := o.(*corev1.Pod); is {
		p.Annotations["policy.istio.io/check"] = "enable"
		p.Status.Conditions[1].Type = corev1.PodReady
	}
	return o
}

// TestFilteredFieldsAreNotUsed checks, for each built-in kind with every field set, that decoding
// without the removed fields has the result of decoding everything and trimming.
func TestFilteredFieldsAreNotUsed(t *testing.T) {
	t.Parallel()
	for _, kind := range api.Kinds() {
		if kind.Custom || kind.Kind == api.RemoteSecret {
			continue
		}
		t.Run(string(kind.Kind), func(t *testing.T) {
			t.Parallel()
			o := filled(kind)
			version := schema.GroupVersion{Group: kind.Group, Version: kind.Versions[0]}
			data := encoded(t, o.(runtime.Object), version, kind.Kind.Name())
			d := newFilteringDecoder(kind, protobufSerializer())

			short, err := d.appendFiltered(nil, data)
			if err != nil {
				t.Fatal(err)
			}
			if len(short) >= len(data) {
				t.Errorf("%d of %d bytes are left", len(short), len(data))
			}
			if kind.Kind == api.Pod && len(short) > len(data)/10 {
				t.Errorf("%d of %d bytes of a pod are left", len(short), len(data))
			}
			all, _, err := protobufSerializer().Decode(data, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			some, _, err := d.Decode(data, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if some.(metav1.Object).GetResourceVersion() != o.GetResourceVersion() {
				t.Error("the resource version was removed")
			}
			if p, is := some.(*corev1.Pod); is && (len(p.Annotations) != 1 || len(p.Status.Conditions) != 1) {
				t.Errorf("annotations %v and conditions %v are decoded, want the retired annotation and Ready alone",
					p.Annotations, p.Status.Conditions)
			}
			trimObject(all.(metav1.Object))
			trimObject(some.(metav1.Object))
			if diff := cmp.Diff(all, some); diff != "" {
				t.Errorf("an object (-all fields +filtered):\n%s", diff)
			}
		})
	}
}

// TestBookmarksAreMarked checks that the annotation by which client-go recognizes the end of the
// initial objects is decoded for each built-in kind.
func TestBookmarksAreMarked(t *testing.T) {
	t.Parallel()
	for _, kind := range api.Kinds() {
		if kind.Custom || kind.Kind == api.RemoteSecret {
			continue
		}
		o := kind.NewObject()
		o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		data := encoded(t, o.(runtime.Object), schema.GroupVersion{Group: kind.Group, Version: kind.Versions[0]}, kind.Kind.Name())
		got, _, err := newFilteringDecoder(kind, protobufSerializer()).Decode(data, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
			continue
		}
		if got.(metav1.Object).GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
			t.Errorf("%s: the annotation of the bookmark was removed", kind.Kind)
		}
	}
}

// TestListsAreFiltered checks that each object of a list is filtered, and that the metadata of the
// list stays.
func TestListsAreFiltered(t *testing.T) {
	t.Parallel()
	kind, _ := api.Info(api.Pod)
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "17", Continue: "more"}}
	for range 3 {
		list.Items = append(list.Items, *filled(kind).(*corev1.Pod))
	}
	o, _, err := newFilteringDecoder(kind, protobufSerializer()).Decode(encoded(t, list, corev1.SchemeGroupVersion, "PodList"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := o.(*corev1.PodList)
	if got.ResourceVersion != "17" || got.Continue != "more" || len(got.Items) != 3 {
		t.Fatalf("list %s, continued by %q, with %d items", got.ResourceVersion, got.Continue, len(got.Items))
	}
	for _, p := range got.Items {
		if p.ManagedFields != nil || p.Spec.Containers[0].Env != nil || p.Spec.Volumes != nil {
			t.Error("a field was decoded that is not used")
		}
		if p.Name == "" || len(p.Spec.Containers[0].Ports) == 0 || p.Status.PodIP == "" {
			t.Error("a field is missing that is used")
		}
	}
}

// TestOtherMessagesAreNotFiltered checks that a message of another kind is decoded with all fields,
// and that malformed data is an error of the serializer.
func TestOtherMessagesAreNotFiltered(t *testing.T) {
	t.Parallel()
	kind, _ := api.Info(api.Pod)
	d := newFilteringDecoder(kind, protobufSerializer())
	status := &metav1.Status{Message: "too old", Code: 410, Reason: metav1.StatusReasonExpired}
	o, _, err := d.Decode(encoded(t, status, schema.GroupVersion{Version: "v1"}, "Status"), nil, nil)
	if err != nil || o.(*metav1.Status).Message != "too old" {
		t.Errorf("a status: %v, %v", o, err)
	}
	data := encoded(t, filled(kind).(runtime.Object), corev1.SchemeGroupVersion, "Pod")
	for _, n := range []int{0, 3, 4, 20, len(data) / 2, len(data) - 1} {
		if o, _, err := d.Decode(data[:n], nil, nil); err == nil {
			t.Errorf("%d of %d bytes were decoded: %v", n, len(data), o)
		}
	}
}

// TestWatchEventsAreFiltered checks that the object of a watch event has only the fields that are
// used, as one of a list, that an event with a Status is complete, and that malformed events are
// errors of the serializer.
func TestWatchEventsAreFiltered(t *testing.T) {
	t.Parallel()
	kind, _ := api.Info(api.Pod)
	raw := protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme)
	objects := newFilteringDecoder(kind, protobufSerializer())
	d := watchEventDecoder{raw, objects}
	encodedEvent := func(name string, object []byte) []byte {
		t.Helper()
		data, err := (&metav1.WatchEvent{Type: name, Object: runtime.RawExtension{Raw: object}}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	decode := func(data []byte) (metav1.WatchEvent, runtime.Object) {
		t.Helper()
		var event metav1.WatchEvent
		if o, _, err := d.Decode(data, nil, &event); err != nil || o != &event {
			t.Fatalf("%v, %v", o, err)
		}
		o, _, err := objects.Decode(event.Object.Raw, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return event, o
	}

	pod := encoded(t, filled(kind).(runtime.Object), corev1.SchemeGroupVersion, "Pod")
	data := encodedEvent("ADDED", pod)
	event, got := decode(data)
	want, _, err := objects.Decode(pod, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || event.Type != "ADDED" {
		t.Errorf("event %q (-list +watch):\n%s", event.Type, diff)
	}
	if len(event.Object.Raw) > len(pod)/10 {
		t.Errorf("%d of %d bytes of the pod are left", len(event.Object.Raw), len(pod))
	}

	status := &metav1.Status{Message: "too old", Code: 410, Reason: metav1.StatusReasonExpired}
	event, got = decode(encodedEvent("ERROR", encoded(t, status, schema.GroupVersion{Version: "v1"}, "Status")))
	if s, ok := got.(*metav1.Status); !ok || event.Type != "ERROR" || s.Message != "too old" || s.Code != 410 {
		t.Errorf("event %q with a status: %v", event.Type, got)
	}

	for _, n := range []int{0, 3, len(data) / 2, len(data) - 1} {
		if o, _, err := d.Decode(data[:n], nil, new(metav1.WatchEvent)); err == nil {
			t.Errorf("%d of %d bytes were decoded: %v", n, len(data), o)
		}
	}
}

// FuzzFilter checks that filtering any bytes neither panics nor changes the fields that are used.
func FuzzFilter(f *testing.F) {
	kind, _ := api.Info(api.Pod)
	f.Add(encoded(f, filled(kind).(runtime.Object), corev1.SchemeGroupVersion, "Pod"))
	f.Add(encoded(f, pod("a"), corev1.SchemeGroupVersion, "Pod"))
	f.Add(encoded(f, &corev1.PodList{Items: []corev1.Pod{*pod("a")}}, corev1.SchemeGroupVersion, "PodList"))
	f.Add([]byte("k8s\x00\x0a\x06\x12\x04Pod\x12\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, _, err := protobufSerializer().Decode(data, nil, nil)
		some, _, filteredErr := newFilteringDecoder(kind, protobufSerializer()).Decode(data, nil, nil)
		if err != nil {
			return // fields that are removed may be malformed
		}
		if filteredErr != nil {
			t.Fatalf("decoded, but not without the fields that are removed: %v", filteredErr)
		}
		a, isObject := all.(*corev1.Pod)
		if !isObject {
			return
		}
		b := some.(*corev1.Pod)
		trimObject(a)
		trimObject(b)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("an object (-all fields +filtered):\n%s", diff)
		}
	})
}

// BenchmarkDecode decodes a pod as the API server sends it, with all fields and without the unused
// ones.
func BenchmarkDecode(b *testing.B) {
	kind, _ := api.Info(api.Pod)
	data := encoded(b, largePod(), corev1.SchemeGroupVersion, "Pod")
	for name, d := range map[string]runtime.Decoder{
		"all":  protobufSerializer(),
		"used": newFilteringDecoder(kind, protobufSerializer()),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for range b.N {
				if _, _, err := d.Decode(data, nil, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// largePod returns a pod of some 8 KiB, as one with an injected sidecar.
func largePod() *corev1.Pod {
	p := pod("reviews-v1-7d9c-x1")
	p.Namespace, p.ResourceVersion = "default", "1"
	p.Annotations = map[string]string{"prometheus.io/scrape": "true", "sidecar.istio.io/status": strings.Repeat("volume-name,", 20)}
	p.Labels = map[string]string{"app": "a", "version": "v1", "pod-template-hash": "6b7f9c8d5", "security.istio.io/tlsMode": "istio"}
	for i := range 55 {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{
			Name: fmt.Sprintf("VARIABLE_%02d", i), Value: fmt.Sprintf("the value of a variable, number %d", i),
		})
	}
	p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0])
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat(`"f:status":{},`, 100)),
	}}
	return p
}
