// A request handler: one JSON order on stdin, one JSON document on stdout.
//
// Exit code 0: the order's totals. Exit code 1: the host failed. Exit code 2: an invalid request.
// Its document is {"error":{"kind":"syntax"|"type"|"field"|"order","at":...,"message":...}}.
// All amounts of money are whole cents. The limits below keep every product within an int64 and
// every weight finite.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"sort"
	"strings"
)

const (
	requestBytesMax = 1 << 20
	itemsMax        = 1000
	optionsMax      = 16
	priceCentsMax   = 10_000_000
	quantityMax     = 10_000
	weightKgMax     = 100_000
)

// vatPermille is the tax a country adds to a net price.
var vatPermille = map[string]int64{"AT": 200, "CH": 81, "DE": 190, "FR": 200, "HU": 270, "LU": 170}

type order struct {
	ID       string   `json:"id"`
	Customer customer `json:"customer"`
	Items    []item   `json:"items"`
	Note     *string  `json:"note"`
}

type customer struct {
	Name    string `json:"name"`
	Country string `json:"country"`
}

type item struct {
	SKU             string   `json:"sku"`
	Category        string   `json:"category"`
	PriceCents      int64    `json:"price_cents"`
	Quantity        int64    `json:"quantity"`
	DiscountPercent int64    `json:"discount_percent"`
	WeightKg        float64  `json:"weight_kg"`
	Options         []option `json:"options"`
}

type option struct {
	Name       string `json:"name"`
	PriceCents int64  `json:"price_cents"`
}

type reply struct {
	ID            string           `json:"id"`
	For           string           `json:"for"`
	Lines         []line           `json:"lines"`
	Categories    map[string]int64 `json:"categories"`
	Pieces        int64            `json:"pieces"`
	WeightKg      float64          `json:"weight_kg"`
	NetCents      int64            `json:"net_cents"`
	TaxCents      int64            `json:"tax_cents"`
	TotalCents    int64            `json:"total_cents"`
	DearestSKU    string           `json:"dearest_sku"`
	Note          *string          `json:"note,omitempty"`
	HeaviestFirst []string         `json:"heaviest_first"`
}

type line struct {
	SKU           string `json:"sku"`
	DiscountCents int64  `json:"discount_cents"`
	NetCents      int64  `json:"net_cents"`
}

// fault describes an error in a request. The response contains it.
type fault struct {
	Kind    string `json:"kind"`
	At      string `json:"at"`
	Message string `json:"message"`
}

func (f *fault) Error() string { return f.Kind + " at " + f.At + ": " + f.Message }

func main() {
	request, err := io.ReadAll(io.LimitReader(os.Stdin, requestBytesMax+1))
	if err != nil {
		fmt.Fprintf(os.Stderr, "json: cannot read stdin: %v\n", err)
		os.Exit(1)
	}
	var document any
	code := 0
	if totals, wrong := handle(request); wrong != nil {
		document, code = map[string]*fault{"error": wrong}, 2
	} else {
		document = totals
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		fmt.Fprintf(os.Stderr, "json: cannot write stdout: %v\n", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func handle(request []byte) (*reply, *fault) {
	if len(request) > requestBytesMax {
		return nil, &fault{"syntax", fmt.Sprintf("byte %d", requestBytesMax), "request is too long"}
	}
	o, wrong := parse(request)
	if wrong != nil {
		return nil, wrong
	}
	if wrong := validate(o); wrong != nil {
		return nil, wrong
	}
	return total(o), nil
}

func parse(request []byte) (*order, *fault) {
	decoder := json.NewDecoder(bytes.NewReader(request))
	decoder.DisallowUnknownFields()
	var o order
	if err := decoder.Decode(&o); err != nil {
		return nil, faultOf(err, len(request))
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, &fault{"syntax", fmt.Sprintf("byte %d", decoder.InputOffset()), "more than one document"}
	}
	return &o, nil
}

// faultOf rewords the decoder's errors, because their text changes between Go versions.
func faultOf(err error, length int) *fault {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	unknown, isUnknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	switch {
	case errors.As(err, &syntax):
		return &fault{"syntax", fmt.Sprintf("byte %d", syntax.Offset), "not JSON"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &fault{"syntax", fmt.Sprintf("byte %d", length), "document ends too early"}
	case errors.As(err, &mismatch):
		at := mismatch.Field
		if at == "" {
			at = "document"
		}
		return &fault{"type", at, "a JSON " + mismatch.Value + " where " + wanted(mismatch.Type) + " belongs"}
	case isUnknown:
		return &fault{"field", strings.Trim(unknown, `"`), "no such field"}
	}
	return &fault{"syntax", "document", err.Error()}
}

// wanted names a type in JSON's terms, because the sender knows JSON but not this program.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "an array"
	case reflect.Struct:
		return "an object"
	case reflect.Int64:
		return "a whole number"
	}
	return "a number"
}

func validate(o *order) *fault {
	refuse := func(at, format string, values ...any) *fault {
		return &fault{"order", at, fmt.Sprintf(format, values...)}
	}
	if o.ID == "" {
		return refuse("id", "is empty")
	}
	if _, known := vatPermille[o.Customer.Country]; !known {
		return refuse("customer.country", "%q is not served", o.Customer.Country)
	}
	if len(o.Items) < 1 || len(o.Items) > itemsMax {
		return refuse("items", "%d given, 1 to %d allowed", len(o.Items), itemsMax)
	}
	seen := map[string]int{}
	for i, it := range o.Items {
		at := fmt.Sprintf("items[%d]", i)
		if first, again := seen[it.SKU]; again {
			return refuse(at+".sku", "%q stands in items[%d] already", it.SKU, first)
		}
		seen[it.SKU] = i
		switch {
		case it.SKU == "":
			return refuse(at+".sku", "is empty")
		case it.PriceCents < 0 || it.PriceCents > priceCentsMax:
			return refuse(at+".price_cents", "%d given, 0 to %d allowed", it.PriceCents, priceCentsMax)
		case it.Quantity < 1 || it.Quantity > quantityMax:
			return refuse(at+".quantity", "%d given, 1 to %d allowed", it.Quantity, quantityMax)
		case it.DiscountPercent < 0 || it.DiscountPercent > 100:
			return refuse(at+".discount_percent", "%d given, 0 to 100 allowed", it.DiscountPercent)
		case it.WeightKg < 0 || it.WeightKg > weightKgMax:
			return refuse(at+".weight_kg", "%v given, 0 to %d allowed", it.WeightKg, weightKgMax)
		case len(it.Options) > optionsMax:
			return refuse(at+".options", "%d given, 0 to %d allowed", len(it.Options), optionsMax)
		}
		for j, op := range it.Options {
			if op.PriceCents < 0 || op.PriceCents > priceCentsMax {
				return refuse(fmt.Sprintf("%s.options[%d].price_cents", at, j),
					"%d given, 0 to %d allowed", op.PriceCents, priceCentsMax)
			}
		}
	}
	return nil
}

func total(o *order) *reply {
	r := &reply{ID: o.ID, For: o.Customer.Name, Categories: map[string]int64{}, Note: o.Note}
	dearest := int64(-1)
	for _, it := range o.Items {
		each := it.PriceCents
		for _, op := range it.Options {
			each += op.PriceCents
		}
		gross := each * it.Quantity
		discount := divideRounded(gross*it.DiscountPercent, 100)
		r.Lines = append(r.Lines, line{it.SKU, discount, gross - discount})
		r.Categories[it.Category] += gross - discount
		r.Pieces += it.Quantity
		// The conversion prevents a fused multiply-add, which would change the result on some machines.
		r.WeightKg += float64(it.WeightKg * float64(it.Quantity))
		r.NetCents += gross - discount
		if each > dearest {
			dearest, r.DearestSKU = each, it.SKU
		}
	}
	r.TaxCents = divideRounded(r.NetCents*vatPermille[o.Customer.Country], 1000)
	r.TotalCents = r.NetCents + r.TaxCents
	byWeight := append([]item(nil), o.Items...)
	sort.SliceStable(byWeight, func(i, j int) bool { return byWeight[i].WeightKg > byWeight[j].WeightKg })
	for _, it := range byWeight {
		r.HeaviestFirst = append(r.HeaviestFirst, it.SKU)
	}
	return r
}

// divideRounded divides a number that is not negative and rounds half a cent up.
func divideRounded(value, by int64) int64 { return (value + by/2) / by }
