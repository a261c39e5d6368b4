(* adapter: makes My_reader a decoder for `ckptspec conform`: prints a file's neutral document. *)

let accepted, rejected, trouble, bug = (0, 1, 2, 3) (* exit status; the last two say nothing about the file *)

let out = Buffer.create 65536
let put = Buffer.add_string out
let put_list put_item items =
  put "[";
  List.iteri (fun i item -> if i > 0 then put ","; put_item item) items;
  put "]"
let put_option put_value = function None -> put "null" | Some value -> put_value value

let put_hex bytes =
  put "\"";
  String.iter (fun byte -> put (Printf.sprintf "%02x" (Char.code byte))) bytes;
  put "\""

let is_utf_8 text =
  let byte pos = if pos < String.length text then Char.code text.[pos] else 0 in
  let rec rest pos more = more = 0 || (byte pos land 0xc0 = 0x80 && rest (pos + 1) (more - 1)) in
  let rec check pos =
    pos = String.length text
    ||
    let second = byte (pos + 1) in
    let more =
      match text.[pos] with
      | '\x00' .. '\x7f' -> 0
      | '\xc2' .. '\xdf' -> 1
      | '\xe0' when second < 0xa0 -> -1 (* overlong *)
      | '\xed' when second > 0x9f -> -1 (* half a surrogate pair *)
      | '\xe0' .. '\xef' -> 2
      | '\xf0' when second < 0x90 -> -1
      | '\xf4' when second > 0x8f -> -1
      | '\xf0' .. '\xf4' -> 3
      | _ -> -1
    in
    more >= 0 && rest (pos + 1) more && check (pos + 1 + more)
  in
  check 0

let put_char = function
  | ('"' | '\\') as c -> put (Printf.sprintf "\\%c" c)
  | '\x00' .. '\x1f' as c -> put (Printf.sprintf "\\u%04x" (Char.code c))
  | c -> Buffer.add_char out c

let put_text text =
  if is_utf_8 text then (put "\""; String.iter put_char text; put "\"")
  else (put "{\"bytes\":"; put_hex text; put "}")

let put_integer number = put (Printf.sprintf "\"%d\"" number) (* 64-bit integers are strings *)
let put_node (namespace, id) = put "["; put_text namespace; put ","; put_integer id; put "]"
let key name = put (Printf.sprintf ",\"%s\":" name)

let put_padding { My_reader.axes; neutral } =
  put "{\"axes\":"; put_list (fun (left, right) -> put_list put_integer [ left; right ]) axes;
  key "neutral"; put (Printf.sprintf "\"0x%016Lx\"}" (Int64.bits_of_float neutral))

let put_tensor { My_reader.node = namespace, id; label; precision; dims; padding; data } =
  put "{\"namespace\":"; put_text namespace;
  key "id"; put_integer id;
  key "label"; put_list put_text label;
  key "precision"; put_text precision;
  key "dims"; put_list put_integer dims;
  key "padding"; put_option put_padding padding;
  key "data"; put_hex data;
  put "}"

let put_training { My_reader.version; step; epoch; position; host_rng; extra; seeds; state } =
  put (Printf.sprintf "{\"version\":%d" version);
  key "step"; put_integer step;
  key "epoch"; put_integer epoch;
  key "position"; put_integer position;
  key "host_rng"; put_option put_hex host_rng;
  key "extra"; put_list (fun (name, value) -> put_list put_text [ name; value ]) extra;
  key "seeds"; put_option (put_list put_integer) seeds;
  key "state"; put_list put_node state;
  put "}"

let put_document { My_reader.alignment; tensors; training } =
  put (Printf.sprintf "{\"format\":\"ocannl\",\"version\":1,\"alignment\":%d" alignment);
  key "tensors"; put_list put_tensor tensors;
  key "training"; put_option put_training training;
  put "}\n"

let read_all channel =
  let file = Buffer.create 65536 and block = Bytes.create 65536 in
  let rec read () =
    match input channel block 0 (Bytes.length block) with
    | 0 -> Buffer.contents file
    | count -> Buffer.add_subbytes file block 0 count; read ()
  in
  set_binary_mode_in channel true;
  read ()

let decode () =
  let file = read_all (if Array.length Sys.argv > 1 then open_in_bin Sys.argv.(1) else stdin) in
  let status =
    match My_reader.read file with
    | checkpoint -> put_document checkpoint; accepted
    | exception My_reader.Bad_file (message, offset) ->
        put "{\"error\":{\"message\":"; put_text message; put (Printf.sprintf ",\"offset\":%d}}\n" offset);
        rejected
  in
  Buffer.output_buffer stdout out;
  flush stdout;
  status

let () =
  match decode () with
  | status -> exit status
  | exception Sys_error message -> prerr_endline message; exit trouble
  | exception error -> prerr_endline (Printexc.to_string error); exit bug
