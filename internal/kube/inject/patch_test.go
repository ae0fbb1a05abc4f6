package inject

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPatchOrder: a patch has the same bytes each time. It appends to lists by ascending index, and
// removes from them by descending index.
func TestPatchOrder(t *testing.T) {
	named := func(n int) (list []corev1.Container) {
		for i := range n {
			list = append(list, corev1.Container{Name: fmt.Sprint(i)})
		}
		return list
	}
	from := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "1", "b": "1", "c": "1", "d": "1", "long": "1"}},
		Spec:       corev1.PodSpec{Containers: named(1), InitContainers: named(12)},
	}
	to := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "2", "b": "2", "d": "1", "e": "1", "f": "1"}},
		Spec:       corev1.PodSpec{Containers: named(12), InitContainers: named(1), HostNetwork: true},
	}
	to.Spec.Containers[0].Image, to.Spec.InitContainers[0].Image = "x", "x"
	want := []string{"add /spec/containers/0/image"}
	for i := 1; i < 12; i++ {
		want = append(want, fmt.Sprintf("add /spec/containers/%d", i))
	}
	want = append(want, "add /spec/hostNetwork", "add /spec/initContainers/0/image", "replace /metadata/labels/a",
		"replace /metadata/labels/b", "add /metadata/labels/e", "add /metadata/labels/f", "remove /metadata/labels/long",
		"remove /metadata/labels/c")
	for i := 11; i > 0; i-- {
		want = append(want, fmt.Sprintf("remove /spec/initContainers/%d", i))
	}
	for range 20 {
		text, err := CreatePatch(from, to)
		if err != nil {
			t.Fatal(err)
		}
		var operations []struct{ Op, Path string }
		if err := json.Unmarshal(text, &operations); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range operations {
			got = append(got, o.Op+" "+o.Path)
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
