package inject

import "testing"

func BenchmarkInject(b *testing.B) {
	s, pod := settings(b, caseSettings{}), readPod(b, []byte(plainPod))
	b.ReportAllocs()
	for b.Loop() {
		r, err := s.Inject(Request{Pod: pod, Namespace: "shop"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := CreatePatch(pod, r.Pod); err != nil {
			b.Fatal(err)
		}
	}
}
