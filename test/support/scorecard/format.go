package scorecard

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// formatValue returns a value as the document shows it: 12,500 and 1.5s and 0.25.
func formatValue(value any) string {
	switch v := value.(type) {
	case time.Duration:
		return roundDuration(v).String()
	case fmt.Stringer:
		return oneLine(v.String())
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return separateThousands(strconv.FormatInt(v.Int(), 10))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return separateThousands(strconv.FormatUint(v.Uint(), 10))
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', 3, 64)
	default:
		return oneLine(fmt.Sprint(value))
	}
}

// roundDuration rounds to three significant digits or so.
func roundDuration(d time.Duration) time.Duration {
	for unit := time.Microsecond; unit < time.Minute; unit *= 10 {
		if d.Abs() < 1000*unit {
			return d.Round(unit)
		}
	}
	return d.Round(time.Second)
}

func separateThousands(digits string) string {
	sign := ""
	if rest, negative := strings.CutPrefix(digits, "-"); negative {
		sign, digits = "-", rest
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// oneLine removes what would break a row of the document.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "|", "/")), " ")
}
