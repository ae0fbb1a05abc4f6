package scenario

import (
	"slices"
	"testing"
)

func TestLowestOfWindows(t *testing.T) {
	for _, tt := range []struct{ samples, want []float64 }{
		{nil, nil},
		{[]float64{3, 1, 2}, []float64{3, 1, 2}},
		{[]float64{4, 3, 9, 5, 7, 8, 6, 9, 1}, []float64{3, 6}},
	} {
		if got := lowest(tt.samples); !slices.Equal(got, tt.want) {
			t.Errorf("lowest(%v) is %v, want %v", tt.samples, got, tt.want)
		}
	}
}
