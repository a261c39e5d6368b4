(** my_reader: reads OCANNL checkpoints, strictly, with nothing but the standard library. *)

(** What is wrong with a file, and near which of its bytes. *)
exception Bad_file of string * int

(** A namespace and an id. Texts are bytes, which need not be UTF-8. *)
type node = string * int

type padding = {
  axes : (int * int) list; (* left and right of each axis *)
  neutral : float;
}

type tensor = {
  node : node;
  label : string list;
  precision : string; (* as in the header, but in lower case and without its suffix: "single" *)
  dims : int list;
  padding : padding option;
  data : string; (* the payload as stored *)
}

type training = {
  version : int;
  step : int;
  epoch : int;
  position : int;
  host_rng : string option;
  extra : (string * string) list;
  seeds : int list option;
  state : node list;
}

type checkpoint = { alignment : int; tensors : tensor list; training : training option }

(** What the bytes of a file hold. Raises [Bad_file]. *)
val read : string -> checkpoint
